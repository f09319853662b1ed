//! Which draws of which members are made in which order, and how they are divided into groups.

/// Groups that draws are divided into, where there are that many.
const NUM_GROUPS: u64 = 10;

/// The draws of one or more members, taken in turn: draw 0 of every member, then draw 1 of every member, …
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    members: u64,
    /// Draws of each.
    samples: u64,
}

impl Plan {
    /// `samples` draws of each of so many members.
    pub fn new(members: usize, samples: u64) -> Self {
        Self { members: members as u64, samples }
    }

    /// How many draws each group has.
    ///
    /// Groups hold whole rounds, so each has as many draws of one member as of another, and leaving one out says how much
    /// depends on the draws and nothing of how members differ. Where members have a single draw, their choice is all
    /// that is left to chance, and groups are of members.
    pub fn group_sizes(&self) -> Vec<u64> {
        match self.samples {
            1 => group_sizes(self.members),
            samples => group_sizes(samples).into_iter().map(|size| size.saturating_mul(self.members)).collect(),
        }
    }

    /// Member and number of each draw of each group.
    pub fn groups(&self) -> impl Iterator<Item = impl Iterator<Item = (usize, u64)> + use<>> + use<> {
        let (members, mut first) = (self.members.max(1), 0u64);
        self.group_sizes().into_iter().map(move |size| {
            let draws = first..first.saturating_add(size);
            first = draws.end;
            draws.map(move |draw| ((draw % members) as usize, draw / members))
        })
    }
}

/// How many draws each group has: draw d of S is in group ⌊d·G/S⌋, G = min(10, S), so groups are neighbours and their
/// sizes differ by one at most.
fn group_sizes(samples: u64) -> Vec<u64> {
    let groups = samples.min(NUM_GROUPS);
    let begin = |group: u64| (u128::from(group) * u128::from(samples)).div_ceil(u128::from(groups.max(1))) as u64;
    (0..groups).map(|group| begin(group + 1) - begin(group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_neighbours_of_nearly_equal_size() {
        assert_eq!(group_sizes(100), [10; 10]);
        assert_eq!(group_sizes(3), [1; 3]);
        assert_eq!(group_sizes(1), [1]);
        for samples in 1..60 {
            let sizes = group_sizes(samples);
            let (min, max) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert_eq!((sizes.iter().sum::<u64>(), max - min <= 1, *min >= 1), (samples, true, true));
        }
        assert_eq!(group_sizes(u64::MAX).iter().sum::<u64>(), u64::MAX);
    }

    #[test]
    fn a_group_has_as_many_draws_of_one_member_as_of_another() {
        let plan = Plan::new(3, 12);
        let groups: Vec<Vec<(usize, u64)>> = plan.groups().map(Iterator::collect).collect();
        assert_eq!(plan.group_sizes(), [6, 3, 3, 3, 3, 6, 3, 3, 3, 3]);
        assert_eq!(groups[0], [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]);
        assert_eq!(groups[9], [(0, 11), (1, 11), (2, 11)]);
        let all: Vec<(usize, u64)> = groups.concat();
        assert_eq!(all.len(), 36);
    }

    #[test]
    fn single_draws_are_grouped_by_member() {
        let groups: Vec<Vec<(usize, u64)>> = Plan::new(3, 1).groups().map(Iterator::collect).collect();
        assert_eq!(groups, [[(0, 0)], [(1, 0)], [(2, 0)]]);
        assert_eq!(Plan::new(1, 1).group_sizes(), [1]);
    }
}
