//! Criterion's view of every kernel: `cargo bench -p ktied-cli` (add a name to choose).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ktied_cli::bench::{self, Work};

fn kernels(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernels");
    group.sample_size(10);
    for mut case in bench::cases() {
        group.throughput(match case.work {
            Work::Flops(flops) => Throughput::Elements(flops as u64),
            Work::Bytes(bytes) => Throughput::Bytes(bytes as u64),
        });
        group.bench_function(&case.name, |bencher| bencher.iter(|| (case.run)().expect("operands that fit")));
    }
    group.finish();
}

criterion_group!(benches, kernels);
criterion_main!(benches);
