/* Multicast groups: member queue pairs, and from which senders of the same engine they receive. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "requests/work.h"

/* Index of the GID that identifies a function in policy tables. */
enum { KNOWN_BY = 1 };

bool hca_is_group(const uint8_t *gid) {
  static const uint8_t IPV4[12] = {[10] = 0xff, [11] = 0xff};
  return gid[0] == 0xff || (memcmp(gid, IPV4, sizeof IPV4) == 0 && gid[12] >> 4 == 0xe);
}

static struct hca_member **members_of(struct hca *hca, const uint8_t *gid) {
  unsigned sum = 0;
  for (unsigned i = 0; i < 16; i++) sum = sum * 31 + gid[i];
  return &hca->members[sum % HCA_GROUP_LISTS];
}

const struct hca_member *hca_next_member(struct hca *hca, const uint8_t *gid,
                                         const struct hca_member *last) {
  const struct hca_member *member = last ? last->next : *members_of(hca, gid);
  while (member && memcmp(member->gid, gid, sizeof member->gid) != 0) member = member->next;
  return member;
}

struct hca_member *hca_member_new(struct hca *hca, struct hca_qp *qp, const uint8_t *gid,
                                  bool open) {
  struct hca_member *member = calloc(1, sizeof *member);
  if (!member) return NULL;
  member->qp = qp;
  member->open = open;
  memcpy(member->gid, gid, sizeof member->gid);
  hca_enter(hca);
  struct hca_member **list = members_of(hca, gid);
  member->next = *list;
  *list = member;
  hca_leave(hca);
  return member;
}

void hca_member_free(struct hca *hca, struct hca_member *member) {
  hca_enter(hca);
  struct hca_member **link = members_of(hca, member->gid);
  while (*link && *link != member) link = &(*link)->next;
  if (*link) *link = member->next;
  hca_leave(hca);
  free(member);
}

static struct hca_pair **list_of(struct hca *hca, const uint8_t *member, const uint8_t *sender) {
  unsigned sum = 0;
  for (unsigned i = 0; i < 16; i++) sum = sum * 31 + member[i] * 7u + sender[i];
  return &hca->pairs[sum % HCA_PAIR_LISTS];
}

struct hca_ah *hca_pair_new(struct hca *hca, const uint8_t *member, const uint8_t *sender) {
  struct hca_pair *pair = calloc(1, sizeof *pair);
  if (!pair) {
    errno = ENOMEM;
    return NULL;
  }
  memcpy(pair->member, member, sizeof pair->member);
  memcpy(pair->ah.path.dgid, sender, sizeof pair->ah.path.dgid);
  hca_enter(hca);
  struct hca_pair **list = list_of(hca, member, sender);
  pair->next = *list;
  *list = pair;
  hca_leave(hca);
  return &pair->ah;
}

void hca_pair_free(struct hca *hca, struct hca_ah *ah) {
  struct hca_pair *pair = (struct hca_pair *)ah;
  hca_enter(hca);
  struct hca_pair **link = list_of(hca, pair->member, ah->path.dgid);
  while (*link && *link != pair) link = &(*link)->next;
  if (*link) *link = pair->next;
  hca_leave(hca);
  free(pair);
}

bool hca_may_receive(struct hca *hca, const struct hca_member *member,
                     const struct hca_qp *sender) {
  if (member->open) return true;
  const uint8_t *own = member->qp->client->gids[KNOWN_BY];
  const uint8_t *other = sender->client->gids[KNOWN_BY];
  const struct hca_pair *pair = *list_of(hca, own, other);
  while (pair && (memcmp(pair->member, own, sizeof pair->member) != 0 ||
                  memcmp(pair->ah.path.dgid, other, sizeof pair->ah.path.dgid) != 0))
    pair = pair->next;
  if (!pair) return false;
  if (hca_allowed(pair->ah.policy.receives, TESSERA_VERB_UD)) return true;
  hca_count_denied(pair->ah.policy.in, 0, TESSERA_VERB_UD);
  return false;
}
