; random_ir {"seed": 1, "block": [32, 1, 1], "blocks": 1, "target": "sm_80 ptx78", "passes": 0, "level": 3, "stride": 1, "statements": 0}
; 8 * (lane - 1) in 64 bits is a row of lanes only in the 32 that shared memory takes.
@shared = internal addrspace(3) global [32 x i64] undef, align 16
define void @body(ptr %out, ptr %in, i32 %thread, i32 %lane) {
  %word = load i64, ptr %in
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %end, label %more
more:
  %before = add i32 %lane, -1
  %wide = zext i32 %before to i64
  %own = getelementptr i64, ptr addrspace(3) @shared, i64 %wide
  store volatile i64 %word, ptr addrspace(3) %own
  %read = load volatile i64, ptr addrspace(3) %own
  br label %end
end:
  %result = phi i64 [ 0, %0 ], [ %read, %more ]
  store i64 %result, ptr %out
  ret void
}
