//! What it costs to cut requests out of the input.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use keylatch::resp::request::{Limits, Parser, Step};
use std::hint::black_box;

const REQUESTS: usize = 100;

fn pipeline(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parser");
    group.throughput(Throughput::Elements(REQUESTS as u64));
    let token = "0123456789abcdef0123456789abcdef0123";
    let set = format!(
        "*6\r\n$3\r\nSET\r\n$20\r\nlock:order:123456789\r\n$36\r\n{token}\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n"
    );
    let requests = [
        ("get", "*2\r\n$3\r\nGET\r\n$20\r\nlock:order:123456789\r\n".to_owned()),
        ("set 5 arguments", set.replace("*6", "*5").replace("$2\r\nNX\r\n", "")),
        ("set nx px", set),
        ("inline", "SET lock:order:1 token NX PX 30000\r\n".to_owned()),
    ];
    for (name, request) in requests {
        let input = request.repeat(REQUESTS).into_bytes();
        group.bench_function(name, |bencher| {
            let mut parser = Parser::default();
            let limits = Limits::default();
            bencher.iter(|| {
                let mut rest = &input[..];
                while let Ok(Step::Request { consumed }) = parser.next(rest, &limits) {
                    black_box(parser.args(rest));
                    rest = &rest[consumed..];
                }
                assert!(rest.is_empty());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
