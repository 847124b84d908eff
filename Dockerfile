# dp-publish, dp-learn and dp-bundle for any user, with a root that nobody writes to. Keys, books and trust are in /state:
#
#   docker build --tag dpgraph .
#   docker run --rm --read-only --tmpfs /tmp --network none --user "$(id -u):$(id -g)" \
#       --volume "$HOME/.dpgraph:/state" --volume "$PWD:/data" dpgraph dp-publish data.parquet
#
# Give --interactive --tty to be asked before anything is paid for.
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /src/
COPY common /src/common
COPY consumer /src/consumer
COPY publisher /src/publisher
COPY examples/demo.py /src/examples/demo.py

# the demo compiles the kernels, once for everybody, beside the code, where only root writes
RUN pip install --no-cache-dir "/src[files]" \
 && cd /tmp && python /src/examples/demo.py > /dev/null \
 && rm -rf /src /tmp/* /root/.cache /root/.config

ENV DPGRAPH_HOME=/state HOME=/tmp MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /data
CMD ["dp-publish", "--help"]
