# MCP Notarium over stdio, without root: docker build -t mcp-notarium . (docs/installing.md).
# Every package is installed by hash, from the lock files.
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY requirements-build.lock requirements.lock ./
RUN python -m pip install --no-cache-dir --require-hashes -r requirements-build.lock
RUN python -m venv /opt/notarium
RUN /opt/notarium/bin/python -m pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY scripts/hatch_readme.py scripts/hatch_sbom.py scripts/
COPY src/mcp_notarium src/mcp_notarium
RUN python -m hatchling build -t wheel -d /opt/wheel
RUN /opt/notarium/bin/python -m pip install --no-cache-dir --no-deps /opt/wheel/mcp_notarium-*.whl

FROM python:3.13-slim-bookworm
RUN useradd --uid 10001 --create-home notarium && install -d -o notarium -g notarium -m 0700 /data
COPY --from=build /opt/notarium /opt/notarium
ENV NOTARIUM_DATA_DIR=/data NOTARIUM_STORE=local NOTARIUM_KEYCHAIN=off
VOLUME /data
WORKDIR /home/notarium
USER 10001
ENTRYPOINT ["/opt/notarium/bin/mcp-notarium"]
