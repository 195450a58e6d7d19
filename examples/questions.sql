-- The questions of questions.py, for DuckDB:  duckdb -f examples/questions.sql   (where results/local is)

-- What is deployed in each model, and how many times as fast it is as what else was timed after the choice?
SELECT model, microbatches, arm, part, deployed_speedup, deployed_speedup_low, deployed_speedup_high
FROM 'results/local/splits.parquet'
WHERE part <> 'deployed'
ORDER BY model, deployed_speedup;

-- How far are the prices of the library's strategies from what was measured, for each Problem?
SELECT split_part("case", '/', 1) AS problem,
       count(DISTINCT ("case", direction, program)) AS programs,
       median(error) AS median_error,
       max(error) AS worst_error
FROM (
    SELECT "case", direction, program, abs(predicted_us / list_median(samples_us) - 1) AS error
    FROM 'results/local/problems/*/bench.parquet'
    JOIN (  -- a Program may be several strategies
        SELECT "case", direction, program, any_value(predicted_us) AS predicted_us
        FROM 'results/local/problems/*/prices.parquet'
        GROUP BY ALL
    ) USING ("case", direction, program)
    WHERE status = 'timed'
)
GROUP BY problem
ORDER BY problem;

-- How calm was the machine: the CPU that others took in each launch, and by how much is a time wrong?
-- (Half of what its even and its odd rounds differ by: that is the noise of all of them.)
-- (Launches are counted anew for the probes and for the bench of each Problem.)
SELECT "of", launch, count(DISTINCT ("case", direction, program)) AS programs, max(foreign_cpu_share) AS foreign_cpu_share,
       median(abs(list_median(samples_us[:-:2]) / list_median(samples_us[2:-:2]) - 1)) / 2 AS repeat_error
FROM (
    SELECT 'probes' AS "of", launch, NULL AS "case", NULL AS direction, program, foreign_cpu_share, samples_us
    FROM 'results/local/probes.parquet'
    UNION ALL
    SELECT split_part("case", '/', 1), launch, "case", direction, program, foreign_cpu_share, samples_us
    FROM 'results/local/problems/*/bench.parquet'
)
WHERE len(samples_us) > 1
GROUP BY "of", launch
ORDER BY "of", launch;
