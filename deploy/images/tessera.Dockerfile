# The product's image: operator, gpud and device plugin; the container's command selects one.
# ./build prepares the context. Works with BuildKit and with the classic builder, which leaves its stages
# as images without a name: `make clean` finds these by the label.
ARG BASE=python:3.13-slim

# The wildcard makes the wheel folder optional: without it pip installs from the package index.
FROM ${BASE} AS dependencies
LABEL org.opencontainers.image.title=tessera
COPY install.sh requirements.txt constraints.txt wheels* /build/
RUN sh /build/install.sh /opt/tessera -c /build/constraints.txt -r /build/requirements.txt

# Tessera's own wheel is installed separately, so that only the small last layer changes with it.
FROM dependencies AS product
LABEL org.opencontainers.image.title=tessera
COPY product/ /product/
RUN sh /build/install.sh /opt/tessera --no-deps --no-index --prefix /own /product/*.whl && cd /own/bin && \
    ln -s ../lib/python3*/site-packages/vgpu_sim/native/lib/bin/nvidia-smi nvidia-smi

FROM ${BASE}
LABEL org.opencontainers.image.title=tessera
# nft is for linkd, which loads nftables rules. The base image that is built from source contains it.
RUN command -v nft >/dev/null || { apt-get update && \
    apt-get install -y --no-install-recommends nftables && rm -rf /var/lib/apt/lists/*; }
COPY --from=dependencies /opt/tessera /opt/tessera
# runc sets HOME for a user without one, other runtimes do not, and the operator's client reads it.
ENV PATH=/opt/tessera/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 HOME=/
COPY --from=product /own /opt/tessera
CMD ["tessera", "--help"]
