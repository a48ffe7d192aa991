//! The GitLab adapter under the conformance suite, against the fake GitLab: finding its candidates in
//! everything, in a project and in a group.

mod everywhere {
    use crate::support::fake_gitlab::fixture::GitlabFixture;

    crate::forge_conformance::forge_conformance!(GitlabFixture::looking_in(&[]));
}

mod by_project {
    use crate::support::fake_gitlab::fixture::{GitlabFixture, PROJECT};

    crate::forge_conformance::forge_conformance!(GitlabFixture::looking_in(&[PROJECT]));
}

mod by_group {
    use crate::support::fake_gitlab::fixture::GitlabFixture;

    crate::forge_conformance::forge_conformance!(GitlabFixture::looking_in(&["acme/*"]));
}
