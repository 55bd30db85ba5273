//! The store: its content, its file, and the processes that share it.

mod files;
mod made;
mod processes;
mod store;
