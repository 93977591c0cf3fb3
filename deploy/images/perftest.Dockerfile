# An image as an RDMA user would build it: Debian's unmodified perftest, ibverbs-utils and rdmacm-utils. It
# contains nothing of Tessera: libibverbs and librdmacm are mounted with the pod's HCA function.
ARG BASE=debian:bookworm-slim

FROM ${BASE}
LABEL org.opencontainers.image.title=tessera
RUN command -v rping >/dev/null || { apt-get update && \
    apt-get install -y --no-install-recommends perftest ibverbs-utils rdmacm-utils && rm -rf /var/lib/apt/lists/*; }
CMD ["ibv_devinfo"]
