-- question: Do instructions change in the course of training?
-- grain: one row a run, arm of the instruction and tenth of the suite's longest training (0 to 9)
-- units: instructions, distinct texts, words; divergence: Jensen-Shannon, in bits (0 to 1), of the words of this tenth against those of the
-- units: first tenth with instructions; divergence_by_chance: the same between two halves of that first tenth, so more than chance makes
-- units: between two whole ones. NULL: no words on one side
WITH training AS (
    SELECT r.suite, max(t.step) + 1 AS steps FROM train_step t JOIN run r USING (run_id) WHERE t.mode = 'train' GROUP BY r.suite
),
shown AS (
    SELECT
        i.run_id, i.arm, i.step * 10 // n.steps AS tenth, i.text,
        row_number() OVER (PARTITION BY i.run_id, i.arm, i.step * 10 // n.steps ORDER BY i.instruction_id) % 2 AS half
    FROM instruction i JOIN run r USING (run_id) JOIN training n USING (suite) WHERE i.mode = 'train'
),
size AS (
    SELECT run_id, arm, tenth, min(tenth) OVER (PARTITION BY run_id, arm) AS first, instructions, distinct_texts
    FROM (SELECT run_id, arm, tenth, count(*) AS instructions, count(DISTINCT text) AS distinct_texts FROM shown GROUP BY ALL)
),
-- A text that is shown often is taken apart once.
text AS (SELECT run_id, arm, tenth, half, text, count(*) AS n FROM shown GROUP BY ALL),
word AS (
    SELECT run_id, arm, tenth, half, word, sum(n)::BIGINT AS n
    FROM (SELECT run_id, arm, tenth, half, n, unnest(regexp_extract_all(lower(text), '[\p{L}\p{N}]+')) AS word FROM text)
    GROUP BY ALL
),
side AS (
    SELECT s.run_id, s.arm, s.tenth AS label, w.word, w.n AS p, 0 AS q
    FROM size s JOIN word w ON w.run_id = s.run_id AND w.arm = s.arm AND w.tenth = s.first
    UNION ALL SELECT run_id, arm, tenth, word, 0, n FROM word
    UNION ALL
    SELECT w.run_id, w.arm, -1, w.word, CASE w.half WHEN 0 THEN w.n ELSE 0 END, CASE w.half WHEN 1 THEN w.n ELSE 0 END
    FROM word w JOIN size s USING (run_id, arm, tenth) WHERE s.tenth = s.first
),
pair AS (SELECT run_id, arm, label, word, sum(p)::DOUBLE AS p, sum(q)::DOUBLE AS q FROM side GROUP BY ALL),
share AS (
    SELECT
        run_id, arm, label,
        p / nullif(sum(p) OVER (PARTITION BY run_id, arm, label), 0) AS p,
        q / nullif(sum(q) OVER (PARTITION BY run_id, arm, label), 0) AS q
    FROM pair
),
distance AS (
    SELECT
        run_id, arm, label,
        CASE WHEN count(p) > 0 AND count(q) > 0 THEN
            0.5 * sum(CASE WHEN p > 0 THEN p * log2(2 * p / (p + q)) ELSE 0 END + CASE WHEN q > 0 THEN q * log2(2 * q / (p + q)) ELSE 0 END)
        END AS divergence
    FROM share GROUP BY run_id, arm, label
),
length AS (SELECT run_id, arm, tenth, sum(n)::BIGINT AS words FROM word GROUP BY ALL)
SELECT
    s.run_id, s.arm, s.tenth, s.instructions, s.distinct_texts, coalesce(l.words, 0) AS words,
    greatest(d.divergence, 0) AS divergence, greatest(c.divergence, 0) AS divergence_by_chance
FROM size s
LEFT JOIN length l USING (run_id, arm, tenth)
LEFT JOIN distance d ON d.run_id = s.run_id AND d.arm = s.arm AND d.label = s.tenth
LEFT JOIN distance c ON c.run_id = s.run_id AND c.arm = s.arm AND c.label = -1
ORDER BY s.run_id, s.arm, s.tenth
