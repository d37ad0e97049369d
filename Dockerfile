# The service alone, which needs neither DuckDB nor an HTTP client; `--build-arg EXTRA=[indexer]`
# makes the image that can build snapshots too: its command is then `indexer build SOURCE...`.
# Two images of one recipe and one version, so that only the one that fetches feeds can fetch.
# The tests run on 3.11.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG EXTRA=
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY service service
COPY indexer indexer
# As wheels only: there is no compiler here, and nothing is to be run that was not looked at.
RUN python -m venv --without-pip /opt/ratecard \
    && pip --python /opt/ratecard/bin/python install --no-cache-dir --only-binary :all: ".${EXTRA}"

FROM python:${PYTHON}-slim
COPY --from=build /opt/ratecard /opt/ratecard
# A named volume takes its owner from here, so that the indexer may write to it.
RUN install --directory --owner=65532 --group=65532 /artifacts
ENV PATH=/opt/ratecard/bin:$PATH \
    RATECARD_ARTIFACTS=/artifacts \
    RATECARD_HOST=0.0.0.0 \
    RATECARD_PORT=8000
USER 65532:65532
VOLUME /artifacts
EXPOSE 8000
STOPSIGNAL SIGTERM
# Not /readyz: starting again mends a process that hangs, but brings no snapshot where there is
# none. Not urllib: it would ask a proxy of the environment.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-c", \
    "import http.client, os, sys; service = http.client.HTTPConnection('127.0.0.1', int(os.environ['RATECARD_PORT']), timeout=4); service.request('GET', '/healthz'); sys.exit(service.getresponse().status != 200)"]
ENTRYPOINT ["python", "-m"]
CMD ["service"]
