//! The GitHub adapter under the conformance suite, against the fake GitHub: once finding its
//! candidates by search, once in the list of a repository.

mod searching {
    use crate::support::fake_github::fixture::GithubFixture;

    crate::forge_conformance::forge_conformance!(GithubFixture::searching());
}

mod listing {
    use crate::support::fake_github::fixture::GithubFixture;

    crate::forge_conformance::forge_conformance!(GithubFixture::listing());
}
