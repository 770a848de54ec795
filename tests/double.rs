//! The test double over the wire: each subcommand of KEYLATCH that moves time or makes faults, and
//! Redlock over five servers, by redis-py (`double.py`). Not here: each fault's own bytes (`faults`) and
//! as redis-py sees it, what goes wrong with locks (`failures`), the findings (`findings`).

use std::path::Path;
use std::process::Command;

#[test]
fn over_the_wire_by_redis_py() {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-venv/bin/python");
    let python = std::env::var_os("KEYLATCH_TEST_PYTHON").unwrap_or_else(|| made.into());
    let output = Command::new(env!("CARGO_BIN_EXE_keylatch"))
        .args(["exec", "--nodes", "5", "--"])
        .arg(python)
        .args(["-W", "ignore"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/double.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.ends_with(" ok\n"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
