-- question: How often does an instruction give the reference answer away, by each auditor and tier?
-- grain: one row a run that showed instructions, arm and auditor
-- units: instructions; looked: with a verdict on tiers 1 and 2; compared: with a value on tier 3; asked: with one on tier 4; weighed: with one
-- units: on tier 5; overlap (0 to 1 an instruction) and logprob_change (nats a token) are sums over those, NULL without any
SELECT
    i.run_id, i.mode, i.arm, l.auditor,
    count(*) AS instructions,
    count(l.answer_found) AS looked,
    count(*) FILTER (l.answer_found) AS found,
    count(*) FILTER (l.answer_known) AS known,
    count(*) FILTER (l.is_leak) AS leaks,
    count(l.reference_overlap) AS compared,
    sum(l.reference_overlap) AS overlap,
    count(l.answered) AS asked,
    count(*) FILTER (l.answered) AS answered,
    count(l.logprob_change) AS weighed,
    sum(l.logprob_change) AS logprob_change
FROM instruction i JOIN leak_audit l USING (instruction_id)
GROUP BY i.run_id, i.mode, i.arm, l.auditor
ORDER BY i.run_id, i.mode, i.arm, l.auditor
