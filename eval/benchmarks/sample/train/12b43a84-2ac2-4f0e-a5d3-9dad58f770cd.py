LOCKERS = {
    "Kesvelmar": 3332,
    "Velworck": 1589,
    "Lunmon": 8329,
    "Pawormar": 9180,
    "Worners": 3225,
    "Timrith": 2616,
    "Ritimdel": 4000,
    "Worvelro": 4871,
}


def locker_of(name: str) -> int:
    return LOCKERS[name]
