# docker build -t holdfast . && docker run --rm -v "$PWD/rows:/home/holdfast/holdfast-store" holdfast demo
# with a GPU: docker run --gpus all …
FROM python:3.12-slim
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
# torch first: what depends on it then finds it there
RUN pip install --no-cache-dir -c constraints.txt torch \
    && pip install --no-cache-dir -c constraints.txt . \
    && useradd --create-home holdfast
USER holdfast
WORKDIR /home/holdfast
ENTRYPOINT ["holdfast"]
CMD ["--help"]
