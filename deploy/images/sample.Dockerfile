# An image as a GPU user would build it: Python, numpy, cuda-core and the user's program. It contains
# nothing of Tessera: the driver is mounted with the pod's slice.
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
