//! The outcome as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use super::Outcome;

/// A table and a line on loading.
pub fn render(outcome: &Outcome) -> String {
    let mut table = String::from(
        "| work | tokens | core | of it parsing, template | ns/token | budget | longest slice | `tokenizers` in wasm | ratio |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in &outcome.rows {
        let budget = row.budget.map_or_else(|| "-".into(), millis);
        let reference = row.reference.map_or_else(|| "-".into(), millis);
        let ratio = row
            .reference
            .map_or_else(|| "-".into(), |time| format!("{:.0}", time.as_secs_f64() / row.core.as_secs_f64()));
        let before = row.before.map_or_else(|| "-".into(), |times| times.map(millis).join(", "));
        let each = row.core.as_nanos() / u128::from(row.tokens.max(1));
        let _infallible = writeln!(
            table,
            "| {} | {} | **{}** | {before} | {each} | {budget} | {} | {reference} | {ratio} |",
            row.work,
            row.tokens,
            millis(row.core),
            millis(row.slice),
        );
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let _infallible = write!(
        table,
        "\nLoading in one VM: {} (budget 30 ms); `tokenizers`: {}. Linear memory of the VM with compiled tokenizer and caches after all this work: {:.1} MiB (budget 40); `tokenizers` took {:.1} MiB more.",
        millis(outcome.load[0]),
        millis(outcome.load[1]),
        mib(outcome.memory[0]),
        mib(outcome.memory[1]),
    );
    table
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}
