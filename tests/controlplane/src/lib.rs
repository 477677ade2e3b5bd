//! A real etcd and kube-apiserver for tests, the demo and the benchmarks.
