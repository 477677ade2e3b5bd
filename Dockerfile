# syntax=docker/dockerfile:1
# The image holds one static binary and nothing else: no shell, no package manager, no libraries. Being static, the same
# binary can be copied into any other image, whatever its libc, to run beside a component or around its command:
#
#   COPY --from=REGISTRY/hustings:0.1.0 /hustings /usr/local/bin/hustings
#
# The image needs no CA certificates: Kubernetes mounts the certificate of the API server's authority.
ARG BUILD_IMAGE=rust:1.95-bookworm
ARG FINAL_IMAGE=scratch

FROM ${BUILD_IMAGE} AS build
WORKDIR /source
COPY . .
# The caches outlive the layer: after a change in the sources, the build recompiles only what depends on it and downloads
# nothing. With --target, the flags apply to the binary only. Build scripts and macros cannot be static.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    target="$(rustc --print host-tuple)" \
    && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --package hustings --bin hustings --target "$target" \
    && cp "target/$target/release/hustings" /hustings

FROM ${FINAL_IMAGE}
COPY LICENSE /LICENSE
COPY --from=build /hustings /hustings
# Numeric, so that the kubelet can check runAsNonRoot without an /etc/passwd.
USER 65532:65532
ENTRYPOINT ["/hustings"]
