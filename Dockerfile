# patchkit itself, for CI:
#   docker build -t patchkit .
#   docker run --rm -v patchkit-cache:/cache -v "$PWD:/work" patchkit check recipes/my/recipe.yaml
# Another base with Python 3.11 or later: --build-arg BASE=…
# Behind a proxy with its own certificate: --secret id=ca,src=/path/to/ca.crt
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
COPY . /src
RUN --mount=type=secret,id=ca \
    if [ -f /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \
    python3 -m venv /tmp/pip && python3 -m venv --without-pip /opt/patchkit && \
    /tmp/pip/bin/pip --python /opt/patchkit/bin/python install --no-cache-dir --disable-pip-version-check /src

FROM ${BASE}
RUN --mount=type=secret,id=ca \
    command -v git >/dev/null || { \
        command -v apt-get >/dev/null || { echo "the base has neither git nor apt-get" >&2; exit 1; }; \
        apt-get update -qq && apt-get install -y -qq --no-install-recommends git && \
        apt-get clean && rm -rf /var/lib/apt/lists/*; }
COPY --from=build /opt/patchkit /opt/patchkit
COPY recipes /usr/share/patchkit/recipes
COPY patches /usr/share/patchkit/patches
COPY issues /usr/share/patchkit/issues
RUN mkdir -p /cache /work /home/patchkit && chown 10001:10001 /cache /work /home/patchkit
# a number, so that Kubernetes can see that it is not root
USER 10001:10001
ENV PATH=/opt/patchkit/bin:$PATH HOME=/home/patchkit PATCHKIT_CACHE=/cache
WORKDIR /work
ENTRYPOINT ["patchkit"]
CMD ["--help"]
