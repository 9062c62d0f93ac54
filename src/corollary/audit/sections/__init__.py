"""The sections of the audit, one file each.

A section has
- `TITLE`, a question that is answered with yes or no;
- `findings(subject, budget, key)`, an iterator of findings. Behind each a `measure…` function returns numbers and a
  `judge…` function of these numbers has all thresholds and sentences;
- `answer(findings)`, a sentence that begins with one of `finding.ANSWERS` and goes on with the finding that decides.
  "Cannot tell" names the argument that is missing;
- `EXPLAINS`: for the name of a finding those that follow from it where both are marked, of any section;
- where it has any, `UNSETTLES`: for the name of a finding the titles of sections that cannot say yes while that is a
  problem;
- `actions(subject, findings)`, an iterator of what to do about the marked ones.

A new section is a new file, and its name in `audit/_budget.py`. tests/audit/test_sections.py asks it for a healthy
network that it does not accuse, a sick one that it names and a cure, tests/audit/test_calibration_table.py for a row of
every threshold in docs/calibration.md.
"""
