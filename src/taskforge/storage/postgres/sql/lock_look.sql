-- Whoever bridges a silence does so alone, and sees what those before it did.
select one from taskforge.looks for update
