"""A connected queue pair records its service, whichever call connects it."""

from hca.contract.cm import CmEventType as Event
from hca.daemon.cm.policy import Service
from hca.daemon.common.numbers import Numbers
from support.connections.cm_rig import Client as CmClient, Fabric
from support.rigs.hca_rig import Client


def test_queue_pairs_know_their_service(fresh_engine):
    fabric, numbers = Fabric(), Numbers()
    active, passive = CmClient(fabric, 0), CmClient(fabric, 1)
    programs = [Client(fresh_engine, numbers, index) for index in (0, 1)]
    pairs = []
    for program in programs:
        program.objects.bindings = fabric.manager.bindings
        cq = program.cq()
        pairs.append(program.qp(cq, cq))
    stray = programs[0].qp(programs[0].cq(), programs[0].cq())
    passive.listener(18515)
    here = active.new_routed_id(passive.gid, 18515)
    active.connect(here, qpn=pairs[0].number)
    request = passive.event()
    assert request.qpn == pairs[0].number
    pairs[1].connect(pairs[0], sgid_index=1)  # as rdma_accept does: before it answers
    passive.accept(request.handle, qpn=pairs[1].number)
    answer = active.event()
    assert (answer.type, answer.qpn) == (Event.CONNECT_RESPONSE, pairs[1].number)
    pairs[0].connect(pairs[1], sgid_index=1)
    stray.connect(stray)

    def service(program: int, number: int) -> Service | None:
        return programs[program].objects._qps[number].found.service

    assert service(0, pairs[0].number) == Service(18515, "TCP")
    assert service(1, pairs[1].number) == Service(18515, "TCP", is_server=True)
    assert service(0, stray.number) is None
    for program in programs:
        program.objects.close()
