//! Writes the newest run of a store, and its imports, as a fixture: `keep STORE COMMAND > fixtures/NAME.jsonl`.
//! `scripts/fixtures.sh` runs it.

use std::io;

use layermark_store::Store;
use layermark_testkit::fixtures::Kept;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(store), Some(command)) = (args.next(), args.next()) else {
        return Err("usage: keep STORE COMMAND".into());
    };
    let mut store = Store::open_read(store)?;
    let (run, trials) = store.load("last")?;
    let imports = store.list_imports(usize::MAX)?;
    let imports = imports.iter().map(|i| store.load_import(&i.id));
    let imports = imports.collect::<Result<_, _>>()?;
    let kept = Kept {
        command,
        run,
        trials,
        imports,
    };
    kept.write(&mut io::stdout().lock())?;
    Ok(())
}
