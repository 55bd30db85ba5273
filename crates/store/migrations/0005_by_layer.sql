-- Runs of a layer are found without reading what else is stored of layers.
CREATE INDEX layers_by_spec ON layers (control, spec, run_id);
