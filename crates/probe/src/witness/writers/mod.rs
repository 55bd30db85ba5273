//! The writers, one in a file.

mod append;
mod close;
mod create;
mod mapped;
mod overwrite;
mod rename;
mod sqlite;

pub use append::Append;
pub use close::Close;
pub use create::Create;
pub use mapped::Mapped;
pub use overwrite::Overwrite;
pub use rename::Rename;
pub use sqlite::Sqlite;
