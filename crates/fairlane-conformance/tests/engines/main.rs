//! What every engine must do, and what each must do besides: memory, disk, Redis, a cluster, a
//! server.

mod audit;
mod bad_input;
mod chapters;
mod configured_groups;
mod differential;
mod disk;
mod http;
mod large_groups;
mod locks;
mod lost_replies;
mod observe;
mod read_costs;
mod redis_faults;
mod redis_functions;
mod redis_packed;
mod redis_server;
mod redis_tls;
mod rooms;
mod served;
mod signals;
mod waits;
