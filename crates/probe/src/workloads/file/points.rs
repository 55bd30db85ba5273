//! Expands settings of `file` to points.

use layermark_model::{Param, Point, PointError, Settings};

use super::{
    check::check,
    iozone_args,
    matrix::{self, Matrix},
    params::{self, FileParams, Op},
};
use crate::param::{self, Applied, Params, Row, Values, scaled};

/// Settings expanded to points.
pub fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
    let settings = iozone_args::translate(settings)?;
    let values = Values::read(&FileParams::params(), &settings)?;
    let mut applied = Applied::default();
    let all = match Matrix::of(&values)? {
        Some(matrix) => matrix.expand(scale, &mut applied)?,
        None => param::expand(&values, scale, &mut applied)?,
    };
    param::finish(&settings, &values, &applied, &all)
}

impl Params for FileParams {
    const ID: &'static str = "file";
    const TABLE: &'static [Row<Self>] = params::TABLE;
    const DESCRIPTION: &'static [&'static str] = params::DESCRIPTION;

    /// Parameters of a point, then those of a matrix.
    fn params() -> Vec<Param> {
        let own = Self::TABLE.iter().map(|row| row.param);
        own.chain(matrix::PARAMS.iter().copied()).collect()
    }

    fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        points(settings, scale)
    }

    fn derive(mut self, _: &Values) -> Result<Vec<Self>, PointError> {
        if self.op == Op::FirstWrite {
            self.passes = self.passes.max(1);
        }
        self.shorten_calls();
        Ok(vec![self])
    }

    /// A smaller file keeps whole records, at least one. If possible it keeps whole records of the
    /// largest size in the list, so that points that differ only in the record still do. Distances
    /// shrink with the file.
    fn scale(&mut self, scale: f64, values: &Values) {
        let size = scaled(self.file_size, scale);
        let fits = |r: &u64| *r <= size && r.is_multiple_of(self.record);
        let records = values.numbers("record").into_iter();
        let (unit, least) = if self.op == Op::SeekRead {
            (self.unit(), 2)
        } else {
            (records.filter(fits).max().unwrap_or(self.record), 1)
        };
        self.file_size = (size / unit).max(least) * unit;
        self.fill_record = self.fill_record.min(self.file_size);
        if self.op == Op::SeekRead {
            let distance = scaled(self.distance, scale).min(self.file_size / 2) / unit;
            self.distance = distance.max(1) * unit;
        }
        self.shorten_calls();
    }

    fn check(&self) -> Result<(), PointError> {
        check(self)
    }
}

impl FileParams {
    /// A call of `preadv` takes at most as many records as the file has.
    fn shorten_calls(&mut self) {
        let records = self.file_size.checked_div(self.record).unwrap_or(0);
        self.vectors = self.vectors.min(records.max(1));
    }
}
