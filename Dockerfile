# ktx as an image: `docker build -t ktx .`, then `docker run --rm -v "$PWD:/project" ktx status`.
# CI does not build this file.

FROM python:3.12-slim AS build
WORKDIR /src
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY . .
# constraints.txt pins everything that development needs, with hashes; the image takes the versions alone.
RUN sed '/--hash/d; s/ \\$//' constraints.txt > /tmp/versions.txt \
    && python -m venv /opt/ktx \
    && /opt/ktx/bin/python -m pip install --no-cache-dir -c /tmp/versions.txt \
       ".[postgres,mysql,sqlserver,clickhouse,snowflake,bigquery,databricks,trino,vertex]"

FROM python:3.12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 ktx
COPY --from=build /opt/ktx /opt/ktx
ENV PATH="/opt/ktx/bin:$PATH"
USER ktx
WORKDIR /project
ENTRYPOINT ["ktx"]
CMD ["--help"]
