//! Redis, Valkey and Redis Cluster.
