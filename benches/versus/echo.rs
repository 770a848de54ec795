//! A bare tokio echo server in a process of its own: what the kernel and the runtime cost before a
//! server has done anything. Not here: measuring it (`commands.rs`).

use std::process::{Child, Command, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The argument that makes the benchmark's binary this server.
pub const ARGUMENT: &str = "--echo-server";

/// The process; killed when dropped.
pub struct Echo {
    child: Child,
    pub port: u16,
}

impl Echo {
    pub fn start() -> Echo {
        let port = crate::common::free_port();
        let program = std::env::current_exe().expect("the benchmark has a path");
        let dir = std::env::temp_dir();
        let child =
            crate::common::command(&program.display().to_string(), &dir, &[ARGUMENT, &port.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the benchmark can be started again");
        crate::common::until("the echo server", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Echo { child, port }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until killed, on one thread.
pub fn serve() {
    let port: u16 = std::env::args().next_back().and_then(|a| a.parse().ok()).expect("a port is given");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                while let Ok((mut socket, _)) = listener.accept().await {
                    tokio::task::spawn_local(async move {
                        let _ = socket.set_nodelay(true);
                        let mut buffer = vec![0; 65536];
                        while let Ok(n @ 1..) = socket.read(&mut buffer).await {
                            if socket.write_all(&buffer[..n]).await.is_err() {
                                break;
                            }
                        }
                    });
                }
            })
            .await;
    });
}

/// redis-benchmark, as the load for any of the servers.
pub fn benchmark(port: u16, clients: usize, pipeline: usize, requests: usize, keys: usize, command: &[&str]) {
    let status = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-q"])
        .args(["-c", &clients.to_string(), "-P", &pipeline.to_string(), "-n", &requests.to_string()])
        .args(["-r", &keys.to_string()])
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("redis-benchmark is installed");
    assert!(status.success(), "redis-benchmark ended with {status}");
}
