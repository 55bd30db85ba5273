//! The `layermark` binary end to end, one module for each feature.

mod as_user;
mod bad_days;
mod bad_input;
mod budget;
mod common;
mod directories;
mod disk_full;
mod files_made;
mod hostile;
mod import;
mod kill_matrix;
mod launch;
mod launch_env;
mod launch_guest;
mod launch_layers;
mod launch_safe;
mod matrix;
mod one_cpu;
mod output;
mod plans;
mod real_bad_days;
mod setup;
mod signals;
mod store;
mod studies;
mod targets;
