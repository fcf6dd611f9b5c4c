        // What an invocation has of the operands goes to workgroup memory: {{TURN}}.
#if A_TURNED
#import "shared/matrix_turn.wgsl" X=a BLOCKS={{A_BLOCKS}} WIDTH={{A_WIDTH}} PITCH={{A_PITCH}} ROWS={{A_ROWS}} TURN={{TURN}}
#else
#import "shared/matrix_copy.wgsl" X=a BLOCKS={{A_BLOCKS}} WHOLE={{A_FULL}} ROWS={{A_ROWS}} LAST={{A_LAST}} TURN={{TURN}}
#endif
#if B_TURNED
#import "shared/matrix_turn.wgsl" X=b BLOCKS={{B_BLOCKS}} WIDTH={{B_WIDTH}} PITCH={{B_PITCH}} ROWS={{B_ROWS}} TURN={{TURN}}
#else
#import "shared/matrix_copy.wgsl" X=b BLOCKS={{B_BLOCKS}} WHOLE={{B_FULL}} ROWS={{B_ROWS}} LAST={{B_LAST}} TURN={{TURN}}
#endif
