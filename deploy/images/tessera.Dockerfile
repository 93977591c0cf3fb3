# The product's image: operator, gpud and device plugin; the command chooses.
# The context is assembled by ./build. Builds with BuildKit and with the classic builder, whose stages
# stay behind as images without a name: by the label `make clean` finds them.
ARG BASE=python:3.13-slim

# The wildcard makes the wheel folder optional: without it everything comes from the index.
FROM ${BASE} AS dependencies
LABEL org.opencontainers.image.title=tessera
COPY install.sh requirements.txt constraints.txt wheels* /build/
RUN sh /build/install.sh /opt/tessera -c /build/constraints.txt -r /build/requirements.txt

# Our own wheel apart, as files laid over that environment: a thin last layer.
FROM dependencies AS product
LABEL org.opencontainers.image.title=tessera
COPY product/ /product/
RUN sh /build/install.sh /opt/tessera --no-deps --no-index --prefix /own /product/*.whl && cd /own/bin && \
    ln -s ../lib/python3*/site-packages/vgpu_sim/native/lib/bin/nvidia-smi nvidia-smi

FROM ${BASE}
LABEL org.opencontainers.image.title=tessera
# For linkd, which loads rules of nftables. The base that is built from source has it.
RUN command -v nft >/dev/null || { apt-get update && \
    apt-get install -y --no-install-recommends nftables && rm -rf /var/lib/apt/lists/*; }
COPY --from=dependencies /opt/tessera /opt/tessera
ENV PATH=/opt/tessera/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1
COPY --from=product /own /opt/tessera
CMD ["tessera", "--help"]
