//! What is shown beside the results: tables and charts as Sections, and the words for a row.

pub mod external;
pub mod iops;
pub mod overview;
pub mod rows;
pub mod seek;
