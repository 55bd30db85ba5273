//! The store: its content, its file or its server, and the processes that share it.

mod archive;
mod beside;
mod files;
mod made;
mod places;
mod processes;
mod server;
mod store;
