-- What a point means, said by its workload: JSON. Absent in points stored before it was said.
ALTER TABLE points ADD COLUMN meaning TEXT;
