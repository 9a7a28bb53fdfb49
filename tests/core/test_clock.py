"""The clock that leaves compiling out."""

from wenmai.core.clock import Clock


class Time:
    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


def test_it_stands_still_from_the_first_stop_to_the_last_end():
    time = Time()
    clock = Clock(time)
    began = clock.now()
    time.seconds += 2
    clock.stop()
    time.seconds += 10
    clock.stop()  # one kernel compiles another
    time.seconds += 10
    clock.go_on()
    time.seconds += 10
    assert clock.now() - began == 2
    clock.go_on()
    assert clock.now() - began == 2
    time.seconds += 3
    assert clock.now() - began == 5


def test_listeners_hear_what_is_compiled_while_they_listen():
    clock, heard = Clock(), []
    clock.announce("before")
    with clock.announcing(heard.append):
        clock.announce("kernels")
    clock.announce("after")
    assert heard == ["kernels"]
