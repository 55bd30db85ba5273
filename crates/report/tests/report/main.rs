//! The report of made-up runs, one module for each format or study.

mod appvirt;
mod beside;
mod charts;
mod confirm;
mod cost;
mod devload;
mod edges;
mod ftp;
mod golden;
mod http;
mod iops;
mod iozone_vm;
mod junit;
mod launch_share;
mod lookups;
mod made;
mod modules;
mod net;
mod page;
mod scaling;
mod schema;
mod sections;
mod tables;
mod virtual_io;
mod words;
mod workbook;
