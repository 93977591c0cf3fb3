# What a user of RDMA would build: Debian's perftest, ibverbs-utils and rdmacm-utils, as they are. Nothing of
# Tessera is inside; libibverbs and librdmacm arrive with the HCA function that the pod is given.
ARG BASE=debian:bookworm-slim

FROM ${BASE}
LABEL org.opencontainers.image.title=tessera
RUN command -v rping >/dev/null || { apt-get update && \
    apt-get install -y --no-install-recommends perftest ibverbs-utils rdmacm-utils && rm -rf /var/lib/apt/lists/*; }
CMD ["ibv_devinfo"]
