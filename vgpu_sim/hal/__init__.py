"""The hardware abstraction layer: what programs, administrators and observers share with a device.

Contract, not code: ``worker`` implements it, ``gpud`` consumes it, ``machine`` alone knows both.
Rooms: ``compute``, ``management``, ``observe``; on top ``messages`` and what writes the C headers.
"""
