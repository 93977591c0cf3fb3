# What a user of the GPUs would build: Python, numpy, cuda-core and their program. Nothing of
# Tessera is inside; the driver arrives with the slice that the pod is given.
ARG BASE=python:3.13-slim

FROM ${BASE} AS dependencies
LABEL org.opencontainers.image.title=tessera
COPY install.sh requirements.txt constraints.txt wheels* /build/
RUN sh /build/install.sh /opt/program -c /build/constraints.txt -r /build/requirements.txt

FROM ${BASE}
LABEL org.opencontainers.image.title=tessera
COPY --from=dependencies /opt/program /opt/program
ENV PATH=/opt/program/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1
WORKDIR /program
COPY program/ /program/
CMD ["python", "vectoradd.py"]
