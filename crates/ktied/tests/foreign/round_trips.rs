//! What is read and written without a change is what it was.

use ktied::checkpoint::{Dtype, NamedTensor};
use ktied::foreign::{Container, Convention, Foreign};

use super::support::{f32s, file, fixture, read, scratch};

/// Names, types, shapes and bytes in their order.
fn tensors(file: &Foreign) -> Vec<(&str, &NamedTensor)> {
    file.tensors().collect()
}

fn by_name(file: &Foreign) -> Vec<(&str, &NamedTensor)> {
    let mut tensors = tensors(file);
    tensors.sort_by_key(|(name, _)| *name);
    tensors
}

#[test]
fn a_file_that_nothing_happened_to_keeps_every_tensor() {
    for name in ["bayesian_torch.safetensors", "bayesian_torch.npz", "tfp.npz"] {
        let (before, path) = (read(name), scratch(&format!("unchanged_{name}")));
        before.write(&path).unwrap();
        assert_eq!(Foreign::read(&path).unwrap(), before, "{name}");
        let again = scratch(&format!("again_{name}"));
        Foreign::read(&path).unwrap().write(&again).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap(), "{name}");
    }
}

/// Hugging Face's writer sorts as ours does, and the remark `format` that their tools want is kept.
#[test]
fn a_safetensors_file_of_torch_comes_back_byte_for_byte() {
    let file = read("bayesian_torch.safetensors");
    assert_eq!(file.metadata()["format"], "pt");
    let bytes = file.to_bytes(Container::Safetensors).unwrap();
    assert_eq!(bytes, std::fs::read(fixture("bayesian_torch.safetensors")).unwrap());
}

#[test]
fn both_containers_hold_the_same_tensors_and_become_each_other() {
    let (safetensors, npz) = (read("bayesian_torch.safetensors"), read("bayesian_torch.npz"));
    assert_eq!(by_name(&safetensors), by_name(&npz));
    let (there, back) = (scratch("there.npz"), scratch("back.safetensors"));
    safetensors.write(&there).unwrap();
    assert_eq!(tensors(&Foreign::read(&there).unwrap()), tensors(&safetensors));
    npz.write(&back).unwrap();
    assert_eq!(by_name(&Foreign::read(&back).unwrap()), by_name(&npz));
    assert!(Foreign::read(&back).unwrap().metadata().is_empty());
}

#[test]
fn types_that_posteriors_never_have_pass_through() {
    let all = ["F16", "BF16", "I8", "I16", "U8", "U16", "U64", "BOOL", "F64", "I32", "I64", "U32", "F32"];
    let dtypes = [
        Dtype::F16,
        Dtype::BF16,
        Dtype::I8,
        Dtype::I16,
        Dtype::U8,
        Dtype::U16,
        Dtype::U64,
        Dtype::Bool,
        Dtype::F64,
        Dtype::I32,
        Dtype::I64,
        Dtype::U32,
        Dtype::F32,
    ];
    let mut file = file(&[("w.mu_weight", f32s(&[1, 1], &[0.5])), ("w.rho_weight", f32s(&[1, 1], &[-2.0]))]);
    for (name, dtype) in all.into_iter().zip(dtypes) {
        let bytes = (1..=3 * dtype.size() as u8).collect();
        file.insert(name, NamedTensor::new(dtype, vec![3], bytes).unwrap()).unwrap();
    }
    let path = scratch("types.safetensors");
    file.write(&path).unwrap();
    let back = Foreign::read(&path).unwrap();
    assert_eq!(by_name(&back), by_name(&file));
    assert_eq!(back.pairs(&Convention::bayesian_torch()).unwrap().len(), 1);
    for (name, dtype) in all.into_iter().zip(dtypes) {
        assert_eq!((back.get(name).unwrap().dtype(), dtype.name()), (dtype, name));
    }
}

#[test]
fn names_survive_an_archive_whatever_is_in_them() {
    let names = ["net/kernel:0", "../up", "/root", "a\\b", "C:\\x", "größe/μ", "a//b", "", "x.npy"];
    let tensors: Vec<_> = names.iter().map(|name| (*name, f32s(&[], &[1.0]))).collect();
    let (before, path) = (file(&tensors), scratch("names.npz"));
    before.write(&path).unwrap();
    assert_eq!(Foreign::read(&path).unwrap(), before);
}
