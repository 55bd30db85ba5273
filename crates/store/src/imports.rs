//! Results of other programs, stored next to the runs.

use layermark_model::Import;
use sqlx::{AnyConnection, Row};

use crate::{
    database::Inner,
    read::{json, whole},
    write,
};

/// One line about an import in `layermark history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSummary {
    /// The import's id.
    pub id: String,
    /// When it was imported, milliseconds since 1970 UTC.
    pub imported_ms: i64,
    /// The file it came from.
    pub file: String,
    /// The program that measured.
    pub tool: String,
    /// Number of results.
    pub points: u64,
}

/// Whether there is an import of this id.
pub(crate) async fn has(c: &mut AnyConnection, id: &str) -> Result<bool, Inner> {
    let found = sqlx::query_scalar("SELECT count(*) FROM imports WHERE id = $1").bind(id);
    let found: i64 = found.fetch_one(c).await?;
    Ok(found > 0)
}

pub(crate) async fn put(c: &mut AnyConnection, import: &Import) -> Result<(), Inner> {
    sqlx::query(
        "INSERT INTO imports (id, imported_ms, file, format, tool, measured, notes, points, point_count)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(&import.id)
    .bind(import.imported_ms)
    .bind(&import.file)
    .bind(&import.format)
    .bind(&import.tool)
    .bind(&import.measured)
    .bind(write::json("imports.notes", &import.notes)?)
    .bind(write::json("imports.points", &import.points)?)
    .bind(i64::try_from(import.points.len()).unwrap_or(i64::MAX))
    .execute(c)
    .await?;
    Ok(())
}

/// The id for a name: `last`, or the prefix of exactly one id.
pub(crate) async fn find(c: &mut AnyConnection, id: &str) -> Result<String, Inner> {
    let missing = || Inner::NoImport(id.into());
    if id == "last" {
        let last =
            sqlx::query_scalar("SELECT id FROM imports ORDER BY imported_ms DESC, id DESC LIMIT 1");
        return last.fetch_optional(c).await?.ok_or_else(missing);
    }
    // `%` and `_` would match anything. Ids contain neither.
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(missing());
    }
    let like: Vec<String> = sqlx::query_scalar(
        "SELECT id FROM imports WHERE upper(id) LIKE $1 ORDER BY id DESC LIMIT 3",
    )
    .bind(format!("{}%", id.to_ascii_uppercase()))
    .fetch_all(c)
    .await?;
    match like.as_slice() {
        [] => Err(missing()),
        [one] => Ok(one.clone()),
        _ => Err(Inner::Ambiguous(id.into(), like.join(", "))),
    }
}

pub(crate) async fn get(c: &mut AnyConnection, id: &str) -> Result<Import, Inner> {
    let row = sqlx::query(
        "SELECT id, imported_ms, file, format, tool, measured, notes, points
         FROM imports WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(c)
    .await?
    .ok_or_else(|| Inner::NoImport(id.into()))?;
    Ok(Import {
        id: row.try_get("id")?,
        imported_ms: row.try_get("imported_ms")?,
        file: row.try_get("file")?,
        format: row.try_get("format")?,
        tool: row.try_get("tool")?,
        measured: row.try_get("measured")?,
        notes: json("imports.notes", row.try_get("notes")?)?,
        points: json("imports.points", row.try_get("points")?)?,
    })
}

pub(crate) async fn list(c: &mut AnyConnection, limit: usize) -> Result<Vec<ImportSummary>, Inner> {
    let rows = sqlx::query(
        "SELECT id, imported_ms, file, tool, point_count
         FROM imports ORDER BY imported_ms DESC, id DESC LIMIT $1",
    )
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(c)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(ImportSummary {
                id: row.try_get("id")?,
                imported_ms: row.try_get("imported_ms")?,
                file: row.try_get("file")?,
                tool: row.try_get("tool")?,
                points: whole(row, "point_count")?,
            })
        })
        .collect()
}
