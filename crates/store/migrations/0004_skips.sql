-- Labels of points that are not done in a layer, with the reasons: a JSON object.
ALTER TABLE layers ADD COLUMN skips TEXT NOT NULL DEFAULT '{}';
