# The embedded mode: `docker run IMAGE tessera run --board h100-80gb -- COMMAND`, without a cluster.
# ./embedded prepares the context. The image has Tessera for one machine: neither the operator nor the
# node agent. Users' images begin with `FROM` this one, or mount their programs.
ARG BASE=python:3.13-slim

FROM ${BASE} AS dependencies
LABEL org.opencontainers.image.title=tessera-embedded
COPY install.sh requirements.txt constraints.txt wheels* /build/
COPY product/ /product/
RUN sh /build/install.sh /opt/tessera -c /build/constraints.txt -r /build/requirements.txt && \
    sh /build/install.sh /opt/tessera --no-deps --no-index /product/*.whl

FROM ${BASE}
ARG VERSION=
LABEL org.opencontainers.image.title=tessera-embedded org.opencontainers.image.version=${VERSION} \
    org.opencontainers.image.licenses=Apache-2.0
COPY --from=dependencies /opt/tessera /opt/tessera
ENV PATH=/opt/tessera/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 HOME=/home/tessera
RUN mkdir -p /home/tessera/.cache && chown -R 1000:1000 /home/tessera
USER 1000:1000
WORKDIR /home/tessera
CMD ["tessera", "run", "--board", "h100-80gb", "--", "tessera", "validate"]
