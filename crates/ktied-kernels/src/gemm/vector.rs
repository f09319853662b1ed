//! Vectors of an instruction set, as the tiles of a product need them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A vector register of f32.
///
/// # Safety
/// Every function may be called only where the processor has the instruction set, and is compiled for it only when it is
/// inlined into a function that says so (`#[target_feature]`). Pointers must be good for as many elements as are said.
pub(super) trait Vector: Copy {
    /// Elements.
    const LEN: usize;
    /// All zero.
    unsafe fn zero() -> Self;
    /// The element at `from`, everywhere.
    unsafe fn splat(from: *const f32) -> Self;
    /// LEN elements.
    unsafe fn load(from: *const f32) -> Self;
    /// The first `len` ≤ LEN elements, then zeros.
    unsafe fn load_first(from: *const f32, len: usize) -> Self;
    /// LEN elements.
    unsafe fn store(self, to: *mut f32);
    /// The first `len` ≤ LEN elements.
    unsafe fn store_first(self, to: *mut f32, len: usize);
    /// a·b + self, rounded once.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// self + other.
    unsafe fn plus(self, other: Self) -> Self;
    /// A square of LEN² elements, transposed: row i is read at `from + i·from_stride`, column i written at `to + i·to_stride`.
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);
}

#[cfg(target_arch = "x86_64")]
impl Vector for __m512 {
    const LEN: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_set1_ps(*from) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, len: usize) -> Self {
        // SAFETY: as the trait says; elements that the mask leaves out are not touched.
        unsafe { _mm512_maskz_loadu_ps(mask(len), from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, len: usize) {
        // SAFETY: as the trait says; elements that the mask leaves out are not touched.
        unsafe { _mm512_mask_storeu_ps(to, mask(len), self) }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: as the trait says.
        unsafe {
            // Four 128-bit lanes of four rows at a time: after this, r[4q + l] holds, in its lane p, column 4p + l of rows 4q‥4q+4.
            let mut r = [_mm512_setzero_ps(); 16];
            for q in 0..4 {
                let row = |i: usize| _mm512_loadu_ps(from.add((4 * q + i) * from_stride));
                let (a, b, c, d) = (row(0), row(1), row(2), row(3));
                let (ab_low, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let (cd_low, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                r[4 * q] = _mm512_shuffle_ps::<0x44>(ab_low, cd_low);
                r[4 * q + 1] = _mm512_shuffle_ps::<0xee>(ab_low, cd_low);
                r[4 * q + 2] = _mm512_shuffle_ps::<0x44>(ab_high, cd_high);
                r[4 * q + 3] = _mm512_shuffle_ps::<0xee>(ab_high, cd_high);
            }
            for l in 0..4 {
                let (a, b, c, d) = (r[l], r[4 + l], r[8 + l], r[12 + l]);
                let (ab_even, ab_odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (cd_even, cd_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
                let store = |column: usize, v: __m512| _mm512_storeu_ps(to.add(column * to_stride), v);
                store(l, _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even));
                store(4 + l, _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd));
                store(8 + l, _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even));
                store(12 + l, _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd));
            }
        }
    }
}

/// The lowest `len` of 16 bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn mask(len: usize) -> u16 {
    ((1_u32 << len) - 1) as u16
}

#[cfg(target_arch = "x86_64")]
impl Vector for __m256 {
    const LEN: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm256_set1_ps(*from) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, len: usize) -> Self {
        // SAFETY: as the trait says; elements that the mask leaves out are not touched.
        unsafe { _mm256_maskload_ps(from, lanes(len)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, len: usize) {
        // SAFETY: as the trait says; elements that the mask leaves out are not touched.
        unsafe { _mm256_maskstore_ps(to, lanes(len), self) }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm256_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm256_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: as the trait says.
        unsafe {
            // After this, r[4q + l] holds, in its lane p, column 4p + l of rows 4q‥4q+4.
            let mut r = [_mm256_setzero_ps(); 8];
            for q in 0..2 {
                let row = |i: usize| _mm256_loadu_ps(from.add((4 * q + i) * from_stride));
                let (a, b, c, d) = (row(0), row(1), row(2), row(3));
                let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                r[4 * q] = _mm256_shuffle_ps::<0x44>(ab_low, cd_low);
                r[4 * q + 1] = _mm256_shuffle_ps::<0xee>(ab_low, cd_low);
                r[4 * q + 2] = _mm256_shuffle_ps::<0x44>(ab_high, cd_high);
                r[4 * q + 3] = _mm256_shuffle_ps::<0xee>(ab_high, cd_high);
            }
            for l in 0..4 {
                let store = |column: usize, v: __m256| _mm256_storeu_ps(to.add(column * to_stride), v);
                store(l, _mm256_permute2f128_ps::<0x20>(r[l], r[4 + l]));
                store(4 + l, _mm256_permute2f128_ps::<0x31>(r[l], r[4 + l]));
            }
        }
    }
}

/// Ones in the first `len` lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn lanes(len: usize) -> __m256i {
    // SAFETY: as the trait says.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(len as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

/// What every machine has, as plain Rust: SSE2 or NEON.
impl Vector for [f32; 4] {
    const LEN: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        [0.0; 4]
    }

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        [unsafe { *from }; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, len: usize) -> Self {
        if len == Self::LEN {
            // SAFETY: as the trait says.
            return unsafe { Self::load(from) };
        }
        let mut first = [0.0; 4];
        for (i, first) in first.iter_mut().enumerate().take(len) {
            // SAFETY: as the trait says.
            *first = unsafe { *from.add(i) };
        }
        first
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, len: usize) {
        if len == Self::LEN {
            // SAFETY: as the trait says.
            return unsafe { self.store(to) };
        }
        for (i, value) in self.into_iter().enumerate().take(len) {
            // SAFETY: as the trait says.
            unsafe { *to.add(i) = value };
        }
    }

    /// Rounded once where that is one instruction.
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        let mut sum = self;
        for (sum, (a, b)) in sum.iter_mut().zip(a.into_iter().zip(b)) {
            *sum = if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
                a.mul_add(b, *sum)
            } else {
                *sum + a * b
            };
        }
        sum
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        let mut sum = self;
        for (sum, other) in sum.iter_mut().zip(other) {
            *sum += other;
        }
        sum
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..Self::LEN {
            for t in 0..Self::LEN {
                // SAFETY: as the trait says.
                unsafe { *to.add(t * to_stride + i) = *from.add(i * from_stride + t) };
            }
        }
    }
}
