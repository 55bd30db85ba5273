#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| layermark_fuzz::strace(data));
