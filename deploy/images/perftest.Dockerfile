# What a user of RDMA would build: Debian's perftest and ibverbs-utils, as they are. Nothing of
# Tessera is inside; libibverbs arrives with the HCA function that the pod is given.
ARG BASE=debian:bookworm-slim

FROM ${BASE}
LABEL org.opencontainers.image.title=tessera
RUN command -v ib_write_bw >/dev/null || { apt-get update && \
    apt-get install -y --no-install-recommends perftest ibverbs-utils && rm -rf /var/lib/apt/lists/*; }
CMD ["ibv_devinfo"]
