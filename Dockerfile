# The image holds one static binary and nothing else: no shell, no package manager, no libraries. Being static, the same
# binary can be copied into any other image, whatever its libc, to run beside a component or around its command:
#
#   COPY --from=REGISTRY/hustings:0.1.0 /hustings /usr/local/bin/hustings
#
# The image needs no CA certificates: Kubernetes mounts the certificate of the API server's authority.
#
# `cargo run -p hustings-image` makes the same image without Docker. A test holds this file to that program.
ARG BUILD_IMAGE=rust:1.95-bookworm
ARG FINAL_IMAGE=scratch

# The compiler always runs on the machine's own platform, and builds for another one without emulation:
#
#   docker buildx build --platform linux/amd64,linux/arm64 .
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
ARG TARGETARCH
# For another platform: the Rust target, and the C compiler that builds the crypto provider and links.
RUN case "$TARGETARCH" in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; \
        *) echo "no Rust target for the architecture $TARGETARCH" >&2; exit 1 ;; esac \
    && target="$machine-unknown-linux-gnu" \
    && echo "$target" > /target \
    && if [ "$target" != "$(rustc --print host-tuple)" ]; then \
        rustup target add "$target" \
        && apt-get update \
        && apt-get install --yes --no-install-recommends \
            "gcc-$(echo "$machine" | tr _ -)-linux-gnu" "libc6-dev-$TARGETARCH-cross" \
        && rm -rf /var/lib/apt/lists/*; \
    fi
ENV CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=x86_64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
WORKDIR /source
COPY . .
# The caches outlive the layer: after a change in the sources, the build recompiles only what depends on it and downloads
# nothing. With --target, the flags apply to the binary only. Build scripts and macros cannot be static.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/source/target \
    target="$(cat /target)" \
    && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --package hustings --bin hustings --target "$target" \
    && cp "target/$target/release/hustings" /hustings

FROM ${FINAL_IMAGE}
LABEL org.opencontainers.image.title="hustings"
LABEL org.opencontainers.image.description="Coordinated leader election for Kubernetes"
LABEL org.opencontainers.image.version="0.1.0"
LABEL org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /
COPY LICENSE /LICENSE
COPY --from=build /hustings /hustings
# Numeric, so that the kubelet can check runAsNonRoot without an /etc/passwd.
USER 65532:65532
ENTRYPOINT ["/hustings"]
