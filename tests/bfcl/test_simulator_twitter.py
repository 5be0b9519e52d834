"""TwitterAPI: posting, retweeting, commenting, following; and defaults that nothing leaks into."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tunecheck import DataError
from tunecheck.calls import FunctionCall
from tunecheck.simulators import Backend
from tunecheck_bfcl._services._twitter_api import TwitterAPI

ACCOUNT = {"username": "ada", "password": "pw", "authenticated": True}


class Account:
    """A backend with operations as methods."""

    def __init__(self, **config: Any) -> None:
        simulator = TwitterAPI()
        simulator.load(config)
        self.backend = Backend({"TwitterAPI": simulator})

    def __getattr__(self, operation: str) -> Any:
        return lambda **arguments: self.backend.call(FunctionCall(operation, arguments))

    @property
    def state(self) -> Any:
        return self.backend.states()["TwitterAPI"]


@pytest.fixture
def account() -> Account:
    return Account(**ACCOUNT)


def test_without_a_configuration_there_is_an_account_that_has_posted_nothing() -> None:
    account = Account()
    assert account.posting_get_login_status().text == '{"login_status": false}'
    assert account.search_tweets(keyword="").text == "[]"
    assert account.state["following_list"] == ["alice", "bob"]


def test_only_the_accounts_own_name_and_password_log_in() -> None:
    account = Account(username="ada", password="pw")
    assert account.authenticate_twitter(username="ada", password="wrong").text == '{"authentication_status": false}'
    assert account.post_tweet(content="hi").error
    assert account.authenticate_twitter(username="ada", password="pw").text == '{"authentication_status": true}'
    assert account.authenticate_twitter(username="ada", password="wrong").value == {"authentication_status": False}
    assert not account.post_tweet(content="hi").error


def test_a_tweet_gets_the_next_number_and_is_found_by_text_and_tag(account: Account) -> None:
    account.post_tweet(content="Hello World", tags=["#Greeting"])
    posted = account.post_tweet(content="again", mentions=["@bob"])
    assert posted.text == '{"id": 1, "username": "ada", "content": "again", "tags": [], "mentions": ["@bob"]}'
    assert [each["id"] for each in account.search_tweets(keyword="WORLD").value] == [0]
    assert [each["id"] for each in account.search_tweets(keyword="#greeting").value] == [0]
    assert account.search_tweets(keyword="greeting").value == []
    assert len(account.get_user_tweets(username="ada").value) == 2
    assert account.get_tweet(tweet_id=1).text == posted.text
    assert account.get_tweet(tweet_id="1").error


def test_a_tweet_is_retweeted_once(account: Account) -> None:
    account.post_tweet(content="hi")
    assert account.retweet(tweet_id=0).text == '{"retweet_status": "Successfully retweeted"}'
    assert account.retweet(tweet_id=0).text == '{"retweet_status": "Already retweeted"}'
    assert account.retweet(tweet_id=1).error
    assert account.state["retweets"] == {"ada": [0]}


def test_comments_are_kept_by_tweet(account: Account) -> None:
    account.post_tweet(content="hi")
    account.comment(tweet_id=0, comment_content="nice")
    assert account.get_tweet_comments(tweet_id=0).text == "[{'username': 'ada', 'content': 'nice'}]"
    assert account.get_tweet_comments(tweet_id=1).error


def test_following_somebody_twice_or_leaving_nobody_says_so(account: Account) -> None:
    assert account.follow_user(username_to_follow="zoe").text == '{"follow_status": true}'
    assert account.follow_user(username_to_follow="zoe").text == '{"follow_status": false}'
    assert account.unfollow_user(username_to_unfollow="zoe").text == '{"unfollow_status": true}'
    assert account.unfollow_user(username_to_unfollow="zoe").text == '{"unfollow_status": false}'
    assert account.list_all_following().text == '{"following_list": ["alice", "bob"]}'


def test_statistics_count_what_a_user_did(account: Account) -> None:
    account.post_tweet(content="hi")
    account.retweet(tweet_id=0)
    assert account.get_user_stats(username="ada").text == (
        '{"tweet_count": 1, "following_count": 2, "retweet_count": 1}'
    )
    assert account.get_user_stats(username="bob").text == (
        '{"tweet_count": 0, "following_count": 0, "retweet_count": 0}'
    )


def test_mentioning_in_one_tweet_changes_no_other(account: Account) -> None:
    account.post_tweet(content="one")
    account.post_tweet(content="two")
    account.mention(tweet_id=0, mentioned_usernames=["@zoe"])
    account.post_tweet(content="three")
    assert [tweet["mentions"] for tweet in account.state["tweets"].values()] == [["@zoe"], [], []]


def test_nothing_leaks_from_one_attempt_into_the_next(account: Account) -> None:
    account.post_tweet(content="one")
    account.mention(tweet_id=0, mentioned_usernames=["@zoe"])
    account.state["tweets"][0]["tags"].append("#changed")
    other = Account(**ACCOUNT)
    assert other.post_tweet(content="one").text == (
        '{"id": 0, "username": "ada", "content": "one", "tags": [], "mentions": []}'
    )


def test_lists_that_the_caller_changes_later_stay_as_they_were_given(account: Account) -> None:
    tags = ["#a"]
    account.post_tweet(content="one", tags=tags)
    tags.append("#b")
    assert account.state["tweets"][0]["tags"] == ["#a"]


def test_the_configuration_stays_as_it_is() -> None:
    config: dict[str, Any] = {
        **ACCOUNT,
        "tweets": {"3": {"id": 3, "username": "ada", "content": "x", "tags": [], "mentions": []}},
        "retweets": {"ada": []},
        "following_list": ["zoe"],
        "tweet_counter": 4,
    }
    before = copy.deepcopy(config)
    account = Account(**config)
    assert account.get_tweet(tweet_id=3).value["content"] == "x"
    account.mention(tweet_id=3, mentioned_usernames=["@zoe"])
    account.retweet(tweet_id=3)
    account.unfollow_user(username_to_unfollow="zoe")
    assert account.post_tweet(content="y").value["id"] == 4
    assert config == before


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"tweets": []}, "tweets"),
        ({"tweets": {"x": {}}}, "tweets.x"),
        ({"tweets": {"1": "x"}}, "tweets.1"),
        ({"comments": None}, "comments"),
        ({"retweets": 5}, "retweets"),
        ({"following_list": "bob"}, "following_list"),
        ({"tweet_counter": "5"}, "tweet_counter"),
        ({"username": None}, "username"),
        ({"authenticated": "yes"}, "authenticated"),
    ],
)
def test_a_configuration_that_cannot_be_used_says_which_part(config: dict[str, Any], key: str) -> None:
    with pytest.raises(DataError, match=rf"initial_config\.TwitterAPI\.{key}"):
        Account(**config)
